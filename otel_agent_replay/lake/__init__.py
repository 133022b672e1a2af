"""The Parquet lake: runs written whole, found by id, loaded, verified and queried with SQL.

Importing this package loads nothing heavy; its modules load pyarrow, and `views` loads duckdb.
"""
