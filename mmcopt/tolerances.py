"""Numbers that several modules must agree on: what is feasible, certified, or a rise."""

FEASIBLE = 1e-6  # violations up to this count as feasible
CERTIFIED_GAP = 1e-4  # relative gap at which an answer counts as proved optimal
LOST = 1e-3  # share of an objective that rounding may change; where it may more, it is refused
SHOWN = 5e-7  # relative: half a unit of the sixth digit, as objectives are printed
RISE = 1e-10  # relative rise of the objective between two masters that counts as one
WORSE = 1e-12  # rise of the cuts at which labels that keep a floor are not taken
LEVELS = 16  # steps between no curvature of a sample in a tree of margins and that of the root
SAME = 1e-9  # relative: between a number that was claimed and the same computed again
AGREEMENT = 1e-6  # relative: between a solver's own objective and the formulation's
