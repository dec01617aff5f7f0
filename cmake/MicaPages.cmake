# Writes what the command prints about itself into FOLDER: manual pages (man1/), completions for
# bash, zsh and fish. Run as
#
#   cmake -D RUN=<what starts it,its argument,...> -D MICA=<the command> -D FOLDER=<folder>
#     -D VERBS=<verb,...> -P MicaPages.cmake

# mica_page(<file> <argument>...): what `mica <argument>...` prints. Errors go through a file: what
# Wine leaves running holds a pipe open.
function(mica_page file)
  execute_process(COMMAND ${RUN} ${MICA} ${ARGN} OUTPUT_FILE ${FOLDER}/${file}
    ERROR_FILE ${FOLDER}/errors RESULT_VARIABLE failed)
  if(failed)
    file(READ ${FOLDER}/errors errors)
    message(FATAL_ERROR "mica ${ARGN}: ${failed}\n${errors}")
  endif()
endfunction()

string(REPLACE "," ";" RUN "${RUN}")
foreach(kind man1 bash zsh fish)
  file(MAKE_DIRECTORY ${FOLDER}/${kind})
endforeach()
mica_page(man1/mica.1 man)
string(REPLACE "," ";" VERBS "${VERBS}")
foreach(verb IN LISTS VERBS)
  mica_page(man1/mica-${verb}.1 man ${verb})
endforeach()
mica_page(bash/mica completions bash)
mica_page(zsh/_mica completions zsh)
mica_page(fish/mica.fish completions fish)
file(REMOVE ${FOLDER}/errors)
