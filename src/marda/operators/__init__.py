"""Linear algebra of the models: a diagonal plus a Gram, factorised once and applied often."""
