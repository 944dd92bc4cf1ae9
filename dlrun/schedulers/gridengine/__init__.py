"""Grid Engine: `gridengine` is the back end; `directives` writes `#$` lines, `states` parses qstat and qacct."""
