# Points of a study, two of their figures against each other. Set before: x_title, y_title; data blocks
# $others, $pareto and $reference with rows
#   x y
set terminal svg size 1000,460 font "Helvetica,12" rounded background "#ffffff"
set border 3 lc rgb "#888888"
set tics textcolor rgb "#222222" nomirror
set xlabel x_title noenhanced
set ylabel y_title noenhanced
set format y "%.4g"
set format x "%.4g"
set grid lc rgb "#dddddd"
set key top right
set offsets graph 0.03, graph 0.03, graph 0.05, graph 0.03
plot $others using 1:2 with points pt 7 ps 0.5 lc rgb "#999999" title "points", \
     $pareto using 1:2 with points pt 7 ps 1 lc rgb "#0072B2" title "Pareto set", \
     $reference using 1:2 with points pt 6 ps 1.8 lw 2 lc rgb "#D55E00" title "study as written"
