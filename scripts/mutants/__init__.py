"""Mutation testing of the numerical core: small wrong changes, and whether a test notices.

mutmut 3.8 leaves out every function with a decorator: half of problem.py and two fifths of
PrimalDenoiser are (cached) properties. cosmic-ray starts pytest anew for each mutant, which
here is hours. So these 500 lines: mutants of the syntax tree, tests chosen by the lines that they
run, and one fork of a warmed-up pytest process per mutant.
"""
