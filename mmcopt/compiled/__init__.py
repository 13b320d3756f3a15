"""Every loop that numba compiles: functions of arrays and numbers that know nothing of problems.

It may import only single files such as `mmcopt.linalg`. A function and those that it calls share a
file, or the second is in one that the first imports (`label_rules`): a cached loop sees no changes
farther away. Import these modules inside functions, since numba takes half a second.
"""
