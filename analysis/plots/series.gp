# One quantity over the iterations, a line per row of the comparison. Set before: height, y_title,
# first_iteration, last_iteration, series_count, title_of(n), number_of(n) (which color: a row has
# the same in every figure); data blocks $series_0, $series_1, ... with rows
#   iteration value
set terminal svg size 1000,height font "Helvetica,12" rounded background "#ffffff"
set border 3 lc rgb "#888888"
set tics textcolor rgb "#222222" nomirror
set xtics scale 0.4
set ytics scale 0.4
set xlabel "iteration" offset 0,0.3
set ylabel y_title noenhanced offset 0.5
set key below center horizontal Left reverse noenhanced samplen 2 spacing 1.1 maxcols 2
set yrange [0:*]
set xrange [first_iteration:last_iteration]
set grid ytics lc rgb "#dddddd"
array colors[10] = [0x999999, 0x000000, 0x0072B2, 0xE69F00, 0x009E73, 0xD55E00, 0xCC79A7, 0x56B4E9, \
    0x7F3C8D, 0x8C6D31]
array dashes[3] = [1, 2, 4]
plot for [n = 0:series_count - 1] sprintf("$series_%d", n) using 1:2 with lines lw 1.6 \
    dt dashes[number_of(n) / 10 % 3 + 1] lc rgb colors[number_of(n) % 10 + 1] title title_of(n)
