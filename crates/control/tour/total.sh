# Adds up prices in dollars, one on each line.
awk '{ cents += int($1 * 100) } END { printf "%d.%02d\n", cents / 100, cents % 100 }'
