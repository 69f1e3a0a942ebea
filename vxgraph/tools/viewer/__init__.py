"""The page of `vxgraph show --format html`: one file that opens without a network.

diagram   groups that fold, boxes, edges, transfers
plan      the memory plan, the bill, the timelines
data      all of it as JSON
page      the JSON, the scripts of page/ and the libraries of vendor/ as one HTML text
"""
