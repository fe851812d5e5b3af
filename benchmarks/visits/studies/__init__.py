"""Studies of visits behind decisions 0037 and 0038: what they cost a server, and how MariaDB should store them."""
