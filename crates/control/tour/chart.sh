# Draws a line for each row of a table: its name, and as many marks as its price. Then it names the dearest.
awk -F, '{ printf "%-7s ", $1; for (i = 0; i < $2; i++) printf "#"; print ""; if ($2 + 0 > most) { most = $2 + 0; dearest = $1 } }
  END { print "dearest: " dearest }' "$1"
