"""The commands of NOHARM, a file each; `commands.toml` names them."""
