# Two timelines below each other on one time axis. Set before: height, title_0, title_1, rank_count,
# end_ms (of the longer one), show_names; data blocks $ops_0 and $ops_1 with rows
#   begin_ms end_ms rank kind name        kind: 0 F, 1 B, 2 W, 3 BW
# A single timeline: panel_count = 1.
set terminal svg size 1000,height font "Helvetica,12" rounded background "#ffffff"
set multiplot layout panel_count,1 margins 0.065,0.985,bottom_margin,top_margin spacing 0,panel_gap
set xrange [0:end_ms * 1.005]
set yrange [rank_count - 0.5:-0.5]
set ytics rank_step scale 0
set xtics scale 0.4
set ylabel "rank" offset 1.5
set border 3 lc rgb "#888888"
set tics textcolor rgb "#222222" nomirror
set style fill solid 1.0 border rgb "#ffffff"
color(kind) = kind == 0 ? 0x0072B2 : kind == 1 ? 0xE69F00 : kind == 2 ? 0x009E73 : 0xD55E00
fits(width_ms, name) = show_names && width_ms / end_ms * 920 > 5.5 * strlen(name) + 2
do for [panel = 0:panel_count - 1] {
    data = sprintf("$ops_%d", panel)
    set label 1 (panel == 0 ? title_0 : title_1) at graph 0,1.0 left offset 0,0.9 noenhanced \
        font ",13"
    set xlabel (panel == panel_count - 1 ? "time (ms)" : "") offset 0,0.5
    if (panel == 0) {
        set key at screen 0.985,0.99 right top horizontal samplen 1 font ",11"
    } else {
        unset key
    }
    plot data using 1:3:1:2:($3 - 0.42):($3 + 0.42):(color($4)) with boxxyerror \
             lc rgb variable notitle, \
         for [kind = 0:3] NaN with boxes lc rgb color(kind) \
             title (kinds & 2**kind ? word("F B W BW", kind + 1) : ""), \
         data using (fits($2 - $1, strcol(5)) ? ($1 + $2) / 2 : NaN):3:5 with labels font ",8" \
             tc rgb "#ffffff" notitle
}
unset multiplot
