"""Data: what a table is declared to hold, how its cells become codes, and sources that count them.

- `kinds/`: kinds of columns, one file for each; `kind.py` says what each of them can do.
- `schema/`: the schema, its YAML file, constraints, and drafts from public rows.
- `reading.py`, `codec.py`: from cells to codes and back. `public.py`: public rows, checked and coded.
- `sources/`: frames, files and relations as sources that count; the same rules in SQL.
- `persons.py`, `spelling.py`: which records of one person count, and who a cell means.
- `table.py`, `lines.py`, `streaming.py`, `writing.py`, `visible.py`: tables that people get, and how they are written.
- `cells.py`, `moments.py`, `sql.py`, `yaml_reader.py`: what the others are written in.
"""
