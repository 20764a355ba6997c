# Points with error bars, one below the other. Set before: height, x_title, row_count, smallest, largest;
# data block $rows with rows
#   number value low high kind label       kind: 0 may be the best, 1 not
set terminal svg size 1000,height font "Helvetica,12" rounded background "#ffffff"
set border 1 lc rgb "#888888"
set tics textcolor rgb "#222222" nomirror
set xtics scale 0.4
set xlabel x_title noenhanced offset 0,0.3
set yrange [row_count - 0.5:-0.5]
set xrange [smallest:largest]
set grid xtics lc rgb "#dddddd"
set termoption noenhanced
unset key
plot $rows using 2:1:3:4:($5 == 0 ? 0x0072B2 : 0x999999):ytic(6) with xerrorbars pt 7 ps 0.8 lw 2 lc rgb variable
