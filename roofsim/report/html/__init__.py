"""Make one self-contained page of an answer: blocks of figures, tables and charts, drawn as SVG, in one set of templates."""
