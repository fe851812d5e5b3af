"""`triggerlog bench`: options in; JSON, an HTML report and a summary on the terminal out.

`bench` runs the measures with pytest and writes the report, `progress` shows how far it is, `summary` prints the main
figures and the advice.
"""
