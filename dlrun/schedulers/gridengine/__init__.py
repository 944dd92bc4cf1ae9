"""Grid Engine: `gridengine` is the back end; `directives` writes `#$` lines, `states` reads qstat and qacct."""
