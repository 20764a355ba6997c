# embed_files(<module> <table> FILE...): makes <table>, an array of base/embedded.h with the files'
# texts in the order given, so that the program finds them by name wherever it runs.
function(embed_files module table)
  set(texts "")
  set(entries "")
  foreach(file IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${file})
    cmake_path(GET file STEM LAST_ONLY name)
    string(MAKE_C_IDENTIFIER "text_${name}" text)
    file(READ ${CMAKE_SOURCE_DIR}/${file} bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(APPEND texts "static const unsigned char ${text}[] = {${bytes}0};\n")
    string(APPEND entries "    {\"${name}\", (const char *)${text}},\n")
  endforeach()
  set(source ${CMAKE_BINARY_DIR}/generated/${module}/${table}.c)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT "#include \"base/embedded.h\"

#include <stddef.h>

@texts@
extern const embedded_file @table@[];
const embedded_file @table@[] = {
@entries@    {NULL, NULL},
};
")
  target_sources(${module} PRIVATE ${source})
endfunction()
