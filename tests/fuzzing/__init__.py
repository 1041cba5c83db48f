"""A campaign of faults: damaged files, hostile requests, kills, full disks, odd tables and numbers (`make fuzz`).

Each part is a function of a seed and a count that tells how often each outcome came. An outcome is `right`, `refused` (in one
line that names what is wrong), or a failure; there is no fourth. A short part of each, with a fixed seed, is among the tests.
"""
