# models_embed(OUTPUT <file> CONFIGS <name>... HARDWARE <name>...): writes a C file that holds these
# JSON files of models/configs and models/hardware, so that the program finds them by name wherever
# it runs. Names are listed in the order in which they are shown.
function(models_embed)
  cmake_parse_arguments(arg "" "OUTPUT" "CONFIGS;HARDWARE" ${ARGN})
  set(bytes "")
  set(table "")
  foreach(path ${arg_CONFIGS} ${arg_HARDWARE})
    set(kind MODEL_SHIPPED_HARDWARE)
    if(path IN_LIST arg_CONFIGS)
      set(kind MODEL_SHIPPED_CONFIG)
    endif()
    set(path ${CMAKE_SOURCE_DIR}/models/${path})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    get_filename_component(name ${path} NAME_WLE)
    string(MAKE_C_IDENTIFIER "file_${name}" identifier)
    file(READ ${path} content HEX)
    string(REGEX REPLACE "(..)" "0x\\1," content "${content}")
    string(APPEND bytes "static const char ${identifier}[] = {${content}};\n")
    string(APPEND table "    {${kind}, \"${name}\", ${identifier}, sizeof ${identifier}},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${arg_OUTPUT} CONTENT "#include \"models/shipped.h\"\n
@bytes@
static const model_shipped_file files[] = {
@table@};

const model_shipped_file *model_shipped_files(int *count)
{
    *count = sizeof files / sizeof files[0];
    return files;
}
" @ONLY)
endfunction()
