"""Jobs with several programs: begin with `build`.

`order` checks what needs what, `shares` divides a node among its roles, `components` are nodes of several types,
`supported` refuses the rest.
"""
