"""Benchmarks of mock DIA visits: conditions take turns over the same visits; their record in JSON, a report in HTML.

`run` (`make bench-visits`) measures with `turns` what `plan` says; `estimate` and `baseline` compare conditions, and
`findings` judges the findings of the paper; `report` writes the page, also of a single run (`__main__`).
"""
