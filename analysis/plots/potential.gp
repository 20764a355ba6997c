# The potential over the rounds of one run, beside what is guaranteed and predicted. Set before: title,
# gamma (0: not a potential), lowest, potential_first, guaranteed and predicted (factors per round; predicted 0:
# none), round_last; data block $trail with rows
#   round potential
set terminal svg size 1000,420 font "Helvetica,12" rounded background "#ffffff"
set border 3 lc rgb "#888888"
set tics textcolor rgb "#222222" nomirror
set title title noenhanced
set xlabel "round" offset 0,0.3
set ylabel "phi" offset 0.5
set logscale y
set format y "%g"
set xrange [0:round_last]
set yrange [lowest:*]
set samples 400
set key outside right center Left reverse noenhanced samplen 2 spacing 1.3
set grid lc rgb "#dddddd"
plot potential_first * exp(x * log(guaranteed)) with lines lw 1.6 dt 4 lc rgb 0xE69F00 \
         title "repaired bound, mean", \
     for [n = 1:(predicted > 0)] potential_first * exp(x * log(predicted)) with lines lw 1.6 dt 3 \
         lc rgb 0x009E73 title "spectral prediction", \
     for [n = 1:(gamma > 0)] gamma with lines lw 1 lc rgb 0x888888 title "gamma", \
     $trail using 1:2 with lines lw 1.8 lc rgb 0x0072B2 title "measured, first instance"
