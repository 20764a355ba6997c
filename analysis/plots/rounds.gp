# Rounds to gamma, measured beside bounds and prediction, on two logarithmic axes. Set before: title,
# x_title, has_spectral, perhaps x_most and xtics; data block $points with rows
#   x median fewest most paper repaired spectral       NaN where there is none
set terminal svg size 1000,460 font "Helvetica,12" rounded background "#ffffff"
set border 3 lc rgb "#888888"
set tics textcolor rgb "#222222" nomirror
set title title noenhanced
set xlabel x_title noenhanced offset 0,0.3
set ylabel "rounds" offset 0.5
set logscale xy
if (exists("x_most")) { set xrange [*:x_most] noextend } else { set autoscale xfix }
set format y "%.0s%c"
set key outside right center Left reverse noenhanced samplen 2 spacing 1.3
set grid lc rgb "#dddddd"
plot $points using 1:5 with linespoints pt 7 ps 0.3 lw 1.6 dt 2 lc rgb 0xD55E00 title "paper's bound (good rounds)", \
     $points using 1:6 with linespoints pt 7 ps 0.3 lw 1.6 dt 4 lc rgb 0xE69F00 title "repaired bound", \
     $points using 1:2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb 0x0072B2 \
         title "measured: median, all between", \
     $points using 1:2 with lines lw 1.6 lc rgb 0x0072B2 notitle, \
     for [n = 1:has_spectral] $points using 1:7 with linespoints pt 7 ps 0.3 lw 1.6 dt 3 lc rgb 0x009E73 \
         title "spectral prediction"
