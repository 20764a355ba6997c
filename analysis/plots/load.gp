# How much every rank works over the iterations, as a heat map; one or two rows of the comparison
# below each other. Set before: height, title_0, title_1, panel_count, rank_count, rank_step,
# iteration_count, bottom_margin, top_margin, panel_gap; data blocks $cells_0 and $cells_1 with rows
#   first_iteration end_iteration rank share        share of the busiest rank's work, 0 to 1
# White: the rank is not in use.
set terminal svg size 1000,height font "Helvetica,12" rounded background "#ffffff"
set multiplot layout panel_count,1 margins 0.065,0.875,bottom_margin,top_margin spacing 0,panel_gap
set xrange [0:iteration_count]
set yrange [rank_count - 0.5:-0.5]
set ytics rank_step scale 0
set xtics scale 0.4
set ylabel "rank" offset 1.5
set border 3 lc rgb "#888888"
set tics textcolor rgb "#222222" nomirror
set style fill solid 1.0 noborder
set palette defined (0 "#f7fbff", 0.25 "#c6dbef", 0.5 "#6baed6", 0.75 "#2171b5", 1 "#08306b")
set cbrange [0:1]
set cblabel "work / busiest rank" offset 0.5
unset key
do for [panel = 0:panel_count - 1] {
    data = sprintf("$cells_%d", panel)
    set label 1 (panel == 0 ? title_0 : title_1) at graph 0,1.0 left offset 0,0.7 noenhanced \
        font ",13"
    set xlabel (panel == panel_count - 1 ? "iteration" : "") offset 0,0.5
    if (panel == 0) {
        set colorbox user origin 0.89,bottom_margin size 0.014,top_margin - bottom_margin
    } else {
        unset colorbox
    }
    plot data using 1:3:1:2:($3 - 0.5):($3 + 0.5):4 with boxxyerror lc palette z notitle
}
unset multiplot
