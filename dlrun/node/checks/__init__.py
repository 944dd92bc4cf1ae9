"""Programs that check nodes, ranks and the network, as single files of the job directory or as commands of `node.pyz`.

They share only `network` with staging. Read `node_checks` first, then `check_rank`, which uses `placement_probe`,
`check_network` and `library_check`; then `describe` and `check_site`, and `transport_lines`.
"""
