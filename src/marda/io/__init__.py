"""Tables in files: CSV, Parquet, svmlight, npz and mat become rows with names."""
