# Shares of time that are idle, by cause, as stacked bars. Set before: height, row_count, largest (sum);
# data block $rows with rows
#   number fill imbalance communication barrier reduction migration label      in percent
set terminal svg size 1000,height font "Helvetica,12" rounded background "#ffffff"
set border 1 lc rgb "#888888"
set tics textcolor rgb "#222222" nomirror
set xtics scale 0.4
set xlabel "idle, % of the ranks' time" offset 0,0.3
set yrange [row_count - 0.5:-0.5]
set xrange [0:largest]
set style fill solid 1.0 noborder
set grid xtics lc rgb "#dddddd"
set termoption noenhanced
set tmargin 4
set key at screen 0.5, screen 0.985 center top horizontal maxrows 2 samplen 2
array name[6] = ["warm-up and cool-down", "imbalance", "communication", "optimizer barrier", "gradient reduction", "migration"]
array color[6] = [0x0072B2, 0xE69F00, 0x009E73, 0xCC79A7, 0x56B4E9, 0xD55E00]
plot for [c = 1:6] $rows using (sum [k = 2:c] column(k)):1:(sum [k = 2:c] column(k)):(sum [k = 2:c + 1] column(k)): \
         ($1 - 0.34):($1 + 0.34):ytic(8) with boxxyerror lc rgb color[c] title name[c]
