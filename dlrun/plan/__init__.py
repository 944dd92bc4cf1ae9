"""Spec + site + topology -> plan: every decision with its rule and its reason. Pure.

Begin with `build`, the order of all steps; `decisions` is where they put values, reasons and problems. `resources`, `roles`,
`binding`, `environment`, `fabric`, `container`, `endings`, `runtime_checks`, `capacity`, `cost` and `limits` are a step each;
`affinity`, `command` and `data` are steps with a package each; `metrics`, `scaling` and `tuning` evaluate runs. `codes`
documents problems.
"""
