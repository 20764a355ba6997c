# Gap that drift leaves, measured and bound, on logarithmic axes. Set before: x_title, series_count,
# titles[n] from 1 on; data blocks $series_0, $series_1, ... with rows
#   x measured bound
# where NaN is no value.
set terminal svg size 900,480 font "Helvetica,12" rounded background "#ffffff"
set border 3 lc rgb "#888888"
set tics textcolor rgb "#222222" nomirror
set xtics scale 0.4
set ytics scale 0.4
set logscale xy
set format y "%g"
set datafile missing "NaN"
set xlabel x_title offset 0,0.3
set ylabel "(max - min) / mean after the rounds" noenhanced offset 0.5
set key below center horizontal Left reverse noenhanced samplen 2 spacing 1.1 maxcols 2
set grid ytics lc rgb "#dddddd"
array colors[8] = [0x0072B2, 0xE69F00, 0x009E73, 0xD55E00, 0xCC79A7, 0x56B4E9, 0x000000, 0x999999]
plot for [n = 0:series_count - 1] sprintf("$series_%d", n) using 1:2 with linespoints lw 1.6 pt 7 ps 0.4 \
    lc rgb colors[n % 8 + 1] title titles[n + 1].", measured", \
    for [n = 0:series_count - 1] sprintf("$series_%d", n) using 1:3 with lines lw 1.2 dt 2 \
    lc rgb colors[n % 8 + 1] title titles[n + 1].", bound"
