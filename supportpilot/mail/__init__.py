"""Raw mail to records: pure, no database, no network. Raw bytes in, `ParsedMail` out (`parse.py`)."""
