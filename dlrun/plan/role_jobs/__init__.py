"""Jobs with several programs: begin with `build`.

`order` checks what needs what, `shares` divides a node among its roles, `supported` refuses the rest.
"""
