"""WHERE: topology ids, and machines with their devices, memories and links.

ids       the table of small integers that name a place to run
model     Machine, Device, Memory, Link: frozen, standard library only
source    where machine files are: shipped by name, or anywhere by path
quantity  `{ gib = 80, from = "spec" }`: a number with its unit and where it is from
tables    what a machine file may say; the only module here that imports pydantic
load      TOML -> a checked Machine
routes    the cheapest way between two memories; the only one that uses networkx
"""
