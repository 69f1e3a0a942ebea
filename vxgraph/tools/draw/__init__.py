"""Graphs and programs as pictures: boxes at places, transfers standing out with their bytes.

sketch    boxes, and what flows between them
walk      a program or a graph -> a sketch
fold      what is one block in a sketch of thousands
tree      the blocks, and the sketch while some of them are closed
palette   colours that everybody can tell apart
dot       a sketch -> DOT text; the only module that imports graphviz
render    DOT text -> svg or png, with what is here
"""
