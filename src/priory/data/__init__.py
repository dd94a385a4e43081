"""Data: schemas, codecs, tables, and sources that count."""
