"""Jobs on login nodes: one conversation over a transport each, which may break off anywhere.

Begin with `submit`: for a login node (`destination`) it asks (`steps`), recognises the site (`site`), plans (`plan`),
collects what is sent (`files`) and continues from its record (`record`, `submission`); `recover` asks about one that
broke off. `copies` and `fetch` copy what jobs write; `confined` keeps it below one directory.
"""
