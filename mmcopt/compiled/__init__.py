"""Every loop that numba compiles: functions of arrays and numbers that know nothing of problems.

It may import only single files such as `mmcopt.linalg`. A function and those that it calls share a
file, because numba's cache does not see changes elsewhere; import these modules inside functions,
since numba takes half a second.
"""
