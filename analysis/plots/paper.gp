# Published beside simulated, a pair of bars per group. Set before: title, y_title, group_count,
# mark_count; data blocks $bars and $marks with rows
#   group published simulated low high label       published: NaN where the text does not give it
#   group                                          mark_count of them, where it does not
set terminal svg size 1000,420 font "Helvetica,12" rounded background "#ffffff"
set border 3 lc rgb "#888888"
set tics textcolor rgb "#222222" nomirror
set xtics scale 0 font ",10" noenhanced
set ytics scale 0.4
set title title noenhanced
set ylabel y_title noenhanced offset 0.5
set key outside top right horizontal noenhanced samplen 1.5
set xrange [-0.6:group_count - 0.4]
set yrange [0:*]
set grid ytics lc rgb "#dddddd"
set style fill solid 1.0 noborder
if (group_count > 8) set xtics rotate by -35 left
plot $bars using ($1 - 0.19):2:(0.36) with boxes lc rgb 0x999999 title "published", \
     $bars using ($1 + 0.19):3:(0.36) with boxes lc rgb 0x0072B2 title "simulated", \
     $bars using 1:(0):xtic(6) with points pointsize 0 notitle, \
     $bars using ($1 + 0.19):4:(0):($5 - $4) with vectors heads size screen 0.004,90 \
         lc rgb 0x000000 title "low to high", \
     for [n = 1:(mark_count > 0)] $marks using ($1 - 0.19):(0):("?") with labels center \
         offset 0,0.6 tc rgb "#666666" title "?: not published in text"
