"""WHERE: topology ids, and machines with their devices, memories and links.

ids       the table of small integers that name a place to run
model     Machine, Device, Memory, Link: frozen, standard library only
quantity  `{ gib = 80, from = "spec" }`: a number with its unit and where it is from
load      TOML -> Machine; the only module here that imports pydantic
routes    the cheapest way between two memories; the only one that uses networkx
"""
