"""WHERE: topology ids, and machines with their memories and links."""
