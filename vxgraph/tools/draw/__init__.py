"""Graphs and programs as pictures: boxes at places, transfers standing out with their bytes.

sketch    boxes, and what flows between them
walk      a program or a graph -> a sketch
scopes    which instructions of a large program share a box
dot       a sketch -> DOT text; the only module that imports graphviz
render    DOT text -> svg or png, with what is here
"""
