"""Take note of what is computed from the numbers of a few points, so that it can be done again for any number of them.

Code that works on `Points` gets `TracedPoints` instead: a few sample points whose values are computed as always. Each operation on
them is noted in a `SampleTrace`: the function, what it takes, and its result, equal ones once. Where code asks for a decision, on
which the samples must agree, the condition is noted with its outcome: a `Guard`. What comes out is a graph of operations that
`roofsim.traced.replay` evaluates for other points, each operation on the few columns of numbers that it depends on.
"""
