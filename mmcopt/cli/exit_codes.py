"""What the command `mmcopt` returns to the shell."""

DONE, SOLVER_FAILED, BAD_INPUT, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
