"""Where jobs live. The protocol every store keeps, and one room for each database."""
