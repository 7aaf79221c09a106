# Draws a line for each row of a table: its name, and as many marks as its price.
awk -F, '{ printf "%-7s ", $1; for (i = 0; i < $2; i++) printf "#"; print "" }' "$1"
