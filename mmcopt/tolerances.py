"""Numbers that several modules must agree on: what counts as feasible, certified, or a rise."""

RISE = 1e-10  # relative rise of the objective between two masters that counts as one
