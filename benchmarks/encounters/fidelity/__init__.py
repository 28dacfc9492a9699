"""How true patient and surroundings are to their packets: by rules, by a judge, and what follows."""
