# Throughput per row of the comparison as horizontal bars. Set before: height, x_title, row_count,
# largest (value); data block $rows with rows
#   number value kind text label       kind: 0 static, 1 other
set terminal svg size 1000,height font "Helvetica,12" rounded background "#ffffff"
set border 1 lc rgb "#888888"
set tics textcolor rgb "#222222" nomirror
set xtics scale 0.4
set xlabel x_title noenhanced offset 0,0.3
set yrange [row_count - 0.5:-0.5]
set xrange [0:largest * 1.22]
set format x (largest < 1e5 ? "%g" : "%.1s%c")
set style fill solid 1.0 noborder
set grid xtics lc rgb "#dddddd"
set termoption noenhanced
unset key
plot $rows using (0):1:(0):2:($1 - 0.34):($1 + 0.34):($3 == 0 ? 0x999999 : 0x0072B2):ytic(5) \
         with boxxyerror lc rgb variable, \
     $rows using 2:1:4 with labels left offset 0.6,0 font ",11"
