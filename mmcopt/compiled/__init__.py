"""Every loop that numba compiles: functions of arrays and numbers that know nothing of problems.

It may import only single files such as `mmcopt.linalg`. A function and those that it calls share a
file, because a cached loop does not see changes elsewhere but in constants that its file imports;
import these modules inside functions, since numba takes half a second.
"""
