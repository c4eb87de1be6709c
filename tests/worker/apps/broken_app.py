raise RuntimeError("no database")
