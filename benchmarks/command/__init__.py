"""`triggerlog bench`: options in; JSON, an HTML report and a summary on the terminal out.

`bench` runs the measures with pytest and prints the main figures, `progress` shows how far it is, `choice` says which
way to choose for which need, and `report` makes the report of a record.
"""
