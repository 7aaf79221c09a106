# The total of two prices, to the cent.
test "$(printf '1.15\n2.30\n' | sh projects/tour/total.sh)" = 3.45
